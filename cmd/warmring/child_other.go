//go:build !linux

package main

import "os/exec"

// ofParent does nothing where the kernel cannot tie a child to its parent.
func ofParent(*exec.Cmd) {}
