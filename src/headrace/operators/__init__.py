"""The kernels: numpy and pyarrow in, numpy and pyarrow out; testable without Spark."""
