// Command rollout demonstrates Rollouts: see package rollout and `make demo-rollout`.
package main

import (
	"github.com/pawl-dev/pawl/test/demo/rollout"
	"github.com/pawl-dev/pawl/test/demo/stage"
)

func main() { stage.Main("demo-rollout", rollout.New) }
