package fdb

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// AddressInvalid says that a text is no address.
var AddressInvalid = fault.Declare(fault.Kind{
	Code: "FDB_ADDRESS_INVALID", Class: fault.Invalid,
	Title:  "a text is no address of a process",
	Remedy: "Write ip:port, [ipv6]:port or name:port, followed by :tls if the process listens with TLS.",
	Guide:  "foundationdb.md#if-it-does-not-go-on",
})

// Address is where a process listens: an IP or a DNS name, and a port.
type Address struct {
	Host         string // an IP without brackets, or a DNS name
	Port         int    // 0: none, all processes of the host
	TLS          bool
	FromHostname bool // the status found this IP by a DNS name
}

// The suffixes of addresses. Source: foundationdb 7.3.69, flow/network.cpp.
const (
	tlsSuffix      = ":tls"
	hostnameSuffix = "(fromHostname)"
)

// nameForm is a DNS name. Source: foundationdb 7.3.69, flow/Hostname.actor.cpp; we refuse a leading
// hyphen, and digits with dots only, which FoundationDB reads as an IP.
var (
	nameForm   = regexp.MustCompile(`^(?:[A-Za-z0-9_][A-Za-z0-9_-]*\.)*[A-Za-z0-9_][A-Za-z0-9_-]*\.?$`)
	digitsForm = regexp.MustCompile(`^[0-9.]+$`)
)

// maxName is the length of the longest DNS name.
const maxName = 253

// ParseAddress reads an IP, an IP in brackets or a DNS name, with or without a port, and
// what may follow: ":tls" after a port, "(fromHostname)" at the end. It fails with AddressInvalid.
func ParseAddress(text string) (Address, error) {
	rest, fromHostname := strings.CutSuffix(text, hostnameSuffix)
	if host, ok := parseHost(rest); ok {
		return Address{Host: host, FromHostname: fromHostname}, nil
	}
	rest, tls := strings.CutSuffix(rest, tlsSuffix)
	name, digits, err := net.SplitHostPort(rest)
	if err != nil {
		return Address{}, AddressInvalid.Errorf("%q is neither a host nor host:port", text)
	}
	if strings.HasPrefix(rest, "[") {
		name = "[" + name + "]"
	}
	host, ok := parseHost(name)
	if !ok {
		return Address{}, AddressInvalid.Errorf("%q: %q is neither an IP nor a DNS name", text, name)
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || digits[0] == '0' {
		return Address{}, AddressInvalid.Errorf("%q: %q is no port", text, digits)
	}
	return Address{Host: host, Port: int(port), TLS: tls, FromHostname: fromHostname}, nil
}

// parseHost returns an IP in its canonical form, or a DNS name as it is written.
func parseHost(text string) (host string, ok bool) {
	inner, bracketed := strings.CutPrefix(text, "[")
	if bracketed {
		if inner, bracketed = strings.CutSuffix(inner, "]"); !bracketed {
			return "", false
		}
	}
	if ip, err := netip.ParseAddr(inner); err == nil {
		return ip.String(), ip.Zone() == ""
	}
	return text, len(text) <= maxName && !strings.Contains(text, ":") && nameForm.MatchString(text) && !digitsForm.MatchString(text)
}

// String returns the address as ParseAddress reads it.
func (a Address) String() string {
	text := a.WithoutFlags()
	if a.Port != 0 && a.TLS {
		text += tlsSuffix
	}
	if a.FromHostname {
		text += hostnameSuffix
	}
	return text
}

// Machine returns the host alone, an IPv6 address without brackets.
func (a Address) Machine() string { return a.Host }

// WithoutFlags returns host:port, [ipv6]:port, or the host alone if there is no port.
func (a Address) WithoutFlags() string {
	if a.Port == 0 {
		return a.Host
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

// MarshalText encodes the address as String does; the zero address is empty.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText decodes an address; empty is the zero address.
func (a *Address) UnmarshalText(text []byte) error {
	*a = Address{}
	if len(text) == 0 {
		return nil
	}
	read, err := ParseAddress(string(text))
	if err != nil {
		return err
	}
	*a = read
	return nil
}

// Required says which kinds of addresses a process needs.
type Required struct {
	TLS    bool `json:"tls"`
	NonTLS bool `json:"nonTLS"`
}

// AddressesOf returns the addresses of the nth process of a pod, the first being 1: that with TLS
// first. The host is an IP with or without brackets, a DNS name, or a variable such as
// $FDB_PUBLIC_IP.
func AddressesOf(host string, need Required, process int) []Address {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	var addresses []Address
	if need.TLS {
		addresses = append(addresses, Address{Host: host, Port: Port(process, true), TLS: true})
	}
	if need.NonTLS {
		addresses = append(addresses, Address{Host: host, Port: Port(process, false)})
	}
	return addresses
}

// Port returns the port of the nth process of a pod, the first being 1.
func Port(process int, tls bool) int {
	if tls {
		return 4498 + 2*process
	}
	return 4499 + 2*process
}

// CommandLineAddresses returns the public addresses in the command line of a process. It fails with
// AddressInvalid if there are none or one cannot be read. Source: foundationdb 7.3.69,
// fdbserver/fdbserver.actor.cpp, OPT_PUBLICADDR; options may be written with hyphens or underscores.
func CommandLineAddresses(commandLine string) ([]Address, error) {
	var addresses []Address
	comes := false // the addresses are the next word
	for word := range strings.FieldsFuncSeq(commandLine, func(c rune) bool { return strings.ContainsRune(" \t\n\f\r", c) }) {
		option, value, given := strings.Cut(word, "=")
		long := option == "--public_address" || option == "--public-address"
		switch {
		case comes:
			comes, value = false, word
		case long && given && value != "":
		default:
			comes = !given && (long || option == "-p")
			continue
		}
		for text := range strings.SplitSeq(value, ",") {
			address, err := ParseAddress(text)
			if err != nil {
				return nil, err
			}
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		return nil, AddressInvalid.Errorf("the command line %q has no --public_address", commandLine)
	}
	return addresses, nil
}
