package action

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// capture keeps the first and the last half of a limit of the written bytes and counts the rest.
// Its Write never fails and never blocks.
type capture struct {
	limit int
	total int64
	head  []byte
	ring  []byte // the last bytes, starting at next
	next  int
}

func newCapture(limit int) *capture { return &capture{limit: max(limit, 2)} }

func (c *capture) headLimit() int { return (c.limit + 1) / 2 }
func (c *capture) ringLimit() int { return c.limit / 2 }

// Write implements io.Writer.
func (c *capture) Write(p []byte) (int, error) {
	written := len(p)
	c.total += int64(written)
	if room := c.headLimit() - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	size := c.ringLimit()
	if len(p) > size {
		p = p[len(p)-size:]
	}
	for len(p) > 0 {
		if len(c.ring) < size {
			n := min(size-len(c.ring), len(p))
			c.ring = append(c.ring, p[:n]...)
			p = p[n:]
			continue
		}
		n := copy(c.ring[c.next:], p)
		c.next = (c.next + n) % size
		p = p[n:]
	}
	return written, nil
}

// tail returns the last bytes that are not in head.
func (c *capture) tail() []byte {
	return append(append(make([]byte, 0, len(c.ring)), c.ring[c.next:]...), c.ring[:c.next]...)
}

// whole reports whether nothing was left out.
func (c *capture) whole() bool { return c.total <= int64(c.limit) }

// text returns the kept bytes as valid UTF-8 without secrets. A line in the middle states how many
// bytes were left out.
func (c *capture) text(s *secrets) string {
	if c.whole() {
		return s.clean(readable(append(c.head[:len(c.head):len(c.head)], c.tail()...)))
	}
	head, tail := wholeRunes(c.head, c.tail())
	left := c.total - int64(len(head)) - int64(len(tail))
	return s.cutEnd(s.clean(readable(head))) + fmt.Sprintf("\n[%d bytes left out]\n", left) + s.cutStart(s.clean(readable(tail)))
}

func readable(data []byte) string { return strings.ToValidUTF8(string(data), "\uFFFD") }

// wholeRunes removes incomplete characters at the ends.
func wholeRunes(head, tail []byte) (before, after []byte) {
	for n := 1; n < utf8.UTFMax && n <= len(head); n++ {
		if last := head[len(head)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				head = head[:len(head)-n]
			}
			break
		}
	}
	for n := 1; n < utf8.UTFMax && len(tail) > 0 && !utf8.RuneStart(tail[0]); n++ {
		tail = tail[1:]
	}
	return head, tail
}

// shrink returns the kept bytes under a smaller limit; total stays.
func (c *capture) shrink(limit int) *capture {
	smaller := newCapture(limit)
	kept := append(append([]byte{}, c.head...), c.tail()...)
	if len(kept) <= smaller.limit && !c.whole() {
		return c
	}
	_, _ = smaller.Write(kept)
	smaller.total = c.total
	return smaller
}

// lastLines returns the last lines of a text, limited by number and by bytes.
func lastLines(text string, lines, most int) string {
	text = strings.TrimRight(text, "\n ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[len(text)-most:], "")
	}
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
