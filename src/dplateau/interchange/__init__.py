"""Events and accountants of other libraries: dp-accounting in ``dp_events`` and ``dp_accounting_accountant``, Opacus in ``opacus``.

Nothing is imported here: each module needs the library that it is named after.
"""
