"""What every engine shares at run time: the Run protocol, threads, failures, who is alive."""
