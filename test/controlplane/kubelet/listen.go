package kubelet

import "regexp"

var everywhere = regexp.MustCompile(`^(--?listen=):([0-9]+)$`)

// listenAt gives a program that would listen at all addresses that of its pod: pods share the network
// of the machine, and each may have the same port.
func listenAt(address, word string) string {
	return everywhere.ReplaceAllString(word, "${1}"+address+":${2}")
}
