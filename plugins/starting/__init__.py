"""What `pytest-chaos init` finds in a project, and the first files that it writes there."""
