package kubestore

import "strings"

// request tells whether an annotation is a request of a person or a program.
func request(key string) bool { return strings.HasPrefix(key, domain) }
