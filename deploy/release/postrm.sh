#!/bin/sh
# What runs have stored stays until a purge. dpkg says remove and then purge, rpm 0; an upgrade is neither.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
	;;
purge)
	rm -rf /var/lib/pawl
	rmdir /etc/pawl 2>/dev/null || true
	;;
esac
