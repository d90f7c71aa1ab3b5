"""A sweep in MLflow: what its runs say (names, runs, studies), the stores that take them (database, client), and what
brings one up to date with a journal (replay). ``mlflow_log`` runs it beside a driver."""
