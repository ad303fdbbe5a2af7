// client sleep: waits for a signal to end, so that `kubectl exec` has a pod to run in.
// client serve ADDRESS TEXT: answers each request with TEXT, its Host header and its X-Forwarded-For header. /slow answers after 3 s, /stream in pieces for 20 s.
// client get URL [ADDRESS]: sends one GET on a new connection, without checking certificates, and prints the answer as JSON. ADDRESS replaces the URL's address; tcp4 or tcp6 selects the family.
// client resolve NAME...: prints the first IPv4 address of each name, one line per name.
// client resolve-all NAME...: prints all addresses of each name, IPv4 first.
// client repeat SECONDS MS NAME...: looks up the names in turn, at most one per MS milliseconds. Prints the number of lookups, the number of failures, and the slowest lookup in ms.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 1 && args[0] == "sleep":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
		<-stop
	case len(args) == 3 && args[0] == "serve":
		serve(args[1], args[2])
	case len(args) >= 2 && args[0] == "get":
		get(args[1], args[2:])
	case len(args) >= 2 && args[0] == "resolve":
		resolve("ip4", args[1:])
	case len(args) >= 2 && args[0] == "resolve-all":
		resolve("ip", args[1:])
	case len(args) >= 4 && args[0] == "repeat":
		repeat(number(args[1])*time.Second, number(args[2])*time.Millisecond, args[3:])
	default:
		fmt.Fprintln(os.Stderr, "usage: client sleep | serve ADDRESS TEXT | get URL [ADDRESS] | resolve NAME... | resolve-all NAME... | repeat SECONDS MS NAME...")
		os.Exit(2)
	}
}

func serve(address, text string) {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s host=%s for=%s\n", text, r.Host, r.Header.Get("X-Forwarded-For"))
	})
	http.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(3 * time.Second)
		fmt.Fprintln(w, text)
	})
	http.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for range 40 {
			fmt.Fprintln(w, text)
			w.(http.Flusher).Flush()
			time.Sleep(500 * time.Millisecond)
		}
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, nil))
	os.Exit(1)
}

func resolve(network string, names []string) {
	failed := false
	for _, name := range names {
		addresses, err := net.DefaultResolver.LookupIP(context.Background(), network, name)
		if err != nil {
			fmt.Println(name, err)
			failed = true
			continue
		}
		if network == "ip4" {
			fmt.Println(name, addresses[0])
			continue
		}
		sort.SliceStable(addresses, func(i, j int) bool { return addresses[i].To4() != nil && addresses[j].To4() == nil })
		fmt.Println(name, strings.Trim(fmt.Sprint(addresses), "[]"))
	}
	if failed {
		os.Exit(1)
	}
}

func number(text string) time.Duration {
	value, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return time.Duration(value)
}

func repeat(length, period time.Duration, names []string) {
	lookups, failed, slowest := 0, 0, time.Duration(0)
	for start := time.Now(); time.Since(start) < length; lookups++ {
		asked := time.Now()
		if _, err := net.DefaultResolver.LookupIP(context.Background(), "ip4", names[lookups%len(names)]); err != nil {
			failed++
		}
		took := time.Since(asked)
		slowest = max(slowest, took)
		time.Sleep(period - took)
	}
	fmt.Printf("{\"lookups\":%d,\"failed\":%d,\"slowestMs\":%.1f}\n", lookups, failed, float64(slowest.Microseconds())/1000)
}

type answer struct {
	Status int      `json:"status,omitempty"`
	Body   string   `json:"body,omitempty"`
	Issuer string   `json:"issuer,omitempty"`
	Names  []string `json:"names,omitempty"`
	Remote string   `json:"remote,omitempty"`
	Error  string   `json:"error,omitempty"`
}

func get(url string, address []string) {
	var result answer
	dialer := net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, target string) (net.Conn, error) {
			if len(address) > 0 && strings.HasPrefix(address[0], "tcp") {
				network = address[0]
			} else if len(address) > 0 {
				target = address[0]
			}
			conn, err := dialer.DialContext(ctx, network, target)
			if err == nil {
				result.Remote = conn.RemoteAddr().String()
			}
			return conn, err
		},
	}
	client := http.Client{Transport: transport, Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(url)
	if err != nil {
		result.Error = err.Error()
	} else {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
		result.Status, result.Body = response.StatusCode, string(body)
		if response.TLS != nil {
			leaf := response.TLS.PeerCertificates[0]
			result.Issuer, result.Names = leaf.Issuer.CommonName, leaf.DNSNames
		}
	}
	json.NewEncoder(os.Stdout).Encode(result)
	if err != nil {
		os.Exit(1)
	}
}
