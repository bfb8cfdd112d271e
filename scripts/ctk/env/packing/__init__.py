"""Environments packed for machines that reach nothing: one program that unpacks itself, in parts where asked."""
