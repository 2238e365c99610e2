"""Policies, one file each; `headrace.controllers` gives them their public names."""
