#!/bin/sh
# Makes the user and the state folder, and restarts a server that runs.
set -e
getent group pawl >/dev/null || groupadd --system pawl
getent passwd pawl >/dev/null || useradd --system --gid pawl --home-dir /var/lib/pawl --no-create-home --shell /usr/sbin/nologin pawl
install -d -m 0700 -o pawl -g pawl /var/lib/pawl
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart pawl-server.service || true
fi
