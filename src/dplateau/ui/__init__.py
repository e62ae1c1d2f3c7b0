"""The planner page of ``dplateau ui``: sliders for the public facts of a training, and what follows from them.

``settings`` are what the sliders say, ``noise``, ``risk`` and ``curves`` what is computed of them, ``commands`` what does the same
elsewhere, ``answer`` puts it together for the page, ``ledger`` has the pages of a ledger, ``app`` serves all on this computer.
Nothing here reads data.
"""
