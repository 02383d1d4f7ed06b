#!/bin/sh
# Stops the server before it is removed; an upgrade restarts it afterwards. dpkg says remove, rpm 0.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then systemctl disable --now pawl-server.service || true; fi
	;;
esac
