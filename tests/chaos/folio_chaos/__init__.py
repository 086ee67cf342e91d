"""Faults, one after another, under the load of many clients, with checks after each. The README of the folder above says how."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
