// Program traffic runs in a pod beside the database: it commits rows through a Service and
// answers the commands of a test on its standard input, a line each.
//
//	pause         the longest time between two answered commits since the last pause, in milliseconds
//	stop          stops writing; the number of answered commits
//	missing DSN   how many of these an instance lacks
//
// The only argument is the connection string; the password is in PGPASSWORD.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/test/pgtraffic"
)

func main() {
	w := pgtraffic.Start(func(context.Context) (string, error) { return os.Args[1], nil })
	begun, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := w.Begun(begun); err != nil {
		answer(0, fmt.Errorf("no row is committed: %w", err))
		return
	}
	answer(0, nil)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		verb, arg, _ := strings.Cut(commands.Text(), " ")
		switch verb {
		case "pause":
			answer(int(w.MaxPause().Milliseconds()), nil)
		case "stop":
			answer(w.Stop(), nil)
		case "missing":
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			n, err := w.Missing(ctx, arg)
			cancel()
			answer(n, err)
		}
	}
}

func answer(n int, err error) {
	if err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Println(n)
}
