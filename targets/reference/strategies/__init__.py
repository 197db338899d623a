"""Recovery strategies: one small file each, with a frozen dataclass whose fields are its YAML options.

A strategy has `run(agent)`, which begins or resumes and drives the agent to its end, and `load(durable)`, which
returns what a resume would find. What it `claims` to restore after the container is gone is put to the test.
The harness imports these modules: a runtime is imported inside the methods.
"""
