"""The papers, reproduced: a folder for each, with data, simulation, page and script."""
