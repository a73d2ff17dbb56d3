"""The LLVMs on this machine: where they are, what each can really do, and its flags."""
