"""A sweep in MLflow.

``names``, ``runs`` and ``study`` define what its runs say; ``database`` and ``client`` are the stores that take them;
``replay`` brings one up to date with a journal. ``mlflow_log`` runs it beside a driver.
"""
