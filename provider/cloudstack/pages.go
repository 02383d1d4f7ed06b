package cloudstack

import (
	"errors"
	"regexp"
	"strconv"
	"sync/atomic"
)

// pages holds the page size: as in the options, until the server refuses it. Its limit is
// a setting of each server.
type pages struct{ limit atomic.Int64 }

func (p *pages) size() int { return int(p.limit.Load()) }

var (
	ofPageSize = regexp.MustCompile(`(?i)page\s?size`)
	numbers    = regexp.MustCompile(`\d+`)
)

// shrink reports whether err refuses the page size, and then sets a smaller one: the limit
// from the server's text, or half.
func (p *pages) shrink(err error, size int) bool {
	var refused *refusal
	if !errors.As(err, &refused) || refused.Code != codeParam || !ofPageSize.MatchString(refused.Text) || size <= minPageSize {
		return false
	}
	next := 0
	for _, text := range numbers.FindAllString(refused.Text, -1) {
		if n, err := strconv.Atoi(text); err == nil && n < size {
			next = max(next, n)
		}
	}
	if next < minPageSize {
		next = max(minPageSize, size/2)
	}
	p.limit.CompareAndSwap(int64(size), int64(next))
	return true
}

// minPageSize is the smallest page size: a page contains the last resource of the page
// before.
const minPageSize = 2
