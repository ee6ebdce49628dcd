package main

import (
	"os/exec"
	"syscall"
)

// ofParent lets a child end when this process is killed, and keeps the terminal's Ctrl-C from it: it is told to stop in
// order instead.
func ofParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
