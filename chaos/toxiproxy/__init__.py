"""TCP faults by Toxiproxy: its API driven by `toxiproxy-python`, on its own server or on an embedded one.

    agent ── front tap ── Toxiproxy's proxy ── back tap ── world, or a server

`links` puts that chain between an agent and what it talks to; `tap` sees at both ends of a proxy what it does to the
bytes; `client` drives any server; `servers` finds one. `embedded` is a server of ours: `api` has the HTTP interface,
`proxies` the proxies, `pipeline` their connections, and `toxics` what can be wrong with them.
"""
