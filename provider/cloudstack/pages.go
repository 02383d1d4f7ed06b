package cloudstack

import (
	"errors"
	"regexp"
	"strconv"
	"sync/atomic"
)

// pages is how many things a page may have: as the options say, until the server
// refuses that. Its limit is a setting of each server.
type pages struct{ limit atomic.Int64 }

func (p *pages) size() int { return int(p.limit.Load()) }

var (
	ofPageSize = regexp.MustCompile(`(?i)page\s?size`)
	numbers    = regexp.MustCompile(`\d+`)
)

// shrink reports a refusal of the size that was asked for, and takes a smaller
// one: the largest that the server's text names, else half of it.
func (p *pages) shrink(err error, asked int) bool {
	var refused *refusal
	if !errors.As(err, &refused) || refused.Code != codeParam || !ofPageSize.MatchString(refused.Text) || asked <= minPageSize {
		return false
	}
	next := 0
	for _, text := range numbers.FindAllString(refused.Text, -1) {
		if n, err := strconv.Atoi(text); err == nil && n < asked {
			next = max(next, n)
		}
	}
	if next < minPageSize {
		next = max(minPageSize, asked/2)
	}
	p.limit.CompareAndSwap(int64(asked), int64(next))
	return true
}

// leastPage is the smallest size: a list goes on behind the last thing of the page before.
const minPageSize = 2
