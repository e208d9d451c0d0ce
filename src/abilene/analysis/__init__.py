"""What follows from the record and the posteriors: estimates, gain, manipulation checks."""
