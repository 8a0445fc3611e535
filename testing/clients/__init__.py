"""Stock clients behind one interface, and programs that run them in processes, namespaces and containers of their own."""
