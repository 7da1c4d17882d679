"""What is told of a training: files, pictures, trackers, progress bars. Each is a class in a file of its own."""
