"""The command line: thin. It reads arguments, calls the package, prints. stdout is data, stderr is talk."""
