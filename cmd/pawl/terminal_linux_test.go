package main

import "golang.org/x/sys/unix"

const readModes = unix.TCGETS
