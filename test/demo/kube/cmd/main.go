// Command kube demonstrates Pawl on Kubernetes: see package kube and `make
// demo-kubernetes`.
package main

import (
	"github.com/pawl-dev/pawl/test/demo/kube"
	"github.com/pawl-dev/pawl/test/demo/stage"
)

func main() { stage.Main("demo-kubernetes", kube.New) }
