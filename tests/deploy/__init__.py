"""Tests of docker-compose.yml and of the folder deploy/: what is written there is run, not only read."""
