"""What only a machine with an accelerator can show: `make gpu`."""
