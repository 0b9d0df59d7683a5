"""The hooks of a run: their texts, the calls of interventions, and the driver that decides when."""
