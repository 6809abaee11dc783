"""`python -m onnxreduce`."""

from onnxreduce.cli import main

main()
