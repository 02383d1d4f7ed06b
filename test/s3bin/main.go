// Command rclone is rclone with only what a test needs: `serve s3` for folders. Its module is of its
// own, so that nothing else depends on it.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/serve/s3"
)

func main() { cmd.Main() }
