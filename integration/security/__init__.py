"""Listeners that are not PLAINTEXT: stock clients, right and wrong certificates, slow handshakes, reload, logins, ACLs."""
