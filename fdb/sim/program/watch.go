package program

import (
	"context"
	"os"
	"time"
)

// glance is how often a program looks at its files. The real ones are told by the kernel.
const glance = 200 * time.Millisecond

// stamp is what changes when a file does, also by another target of a link on its path.
type stamp struct {
	there    bool
	size     int64
	modified time.Time
	file     os.FileInfo
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{true, info.Size(), info.ModTime(), info}
}

func (s stamp) same(other stamp) bool {
	if s.there != other.there || s.size != other.size || !s.modified.Equal(other.modified) {
		return false
	}
	return !s.there || os.SameFile(s.file, other.file)
}

// watch sends the path of each file that has changed, until the context ends.
func watch(ctx context.Context, paths ...string) <-chan string {
	changed := make(chan string)
	seen := map[string]stamp{}
	for _, path := range paths {
		seen[path] = stampOf(path)
	}
	go func() {
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for _, path := range paths {
				now := stampOf(path)
				if now.same(seen[path]) {
					continue
				}
				seen[path] = now
				select {
				case changed <- path:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return changed
}

// pause waits for some time, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
