package cloudstack

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster/cloudsign"
)

// encode returns the signed parameters as query or form body.
func encode(params map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(name))
		b.WriteByte('=')
		b.WriteString(cloudsign.Escape(params[name]))
	}
	return b.String()
}
