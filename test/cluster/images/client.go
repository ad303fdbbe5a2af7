// client sleep: waits for its end, so that `kubectl exec` has a pod to run in.
// client serve ADDRESS TEXT: answers each request with TEXT, the host asked for and who asked, as a proxy in front tells it; /slow after 3 s.
// client get URL [ADDRESS]: one GET on a connection of its own, certificates unchecked, to ADDRESS where given; the answer as JSON.
// client load SECONDS URL...: GETs for this long, one after the other for each URL, each on a connection of its own; the counts as JSON.
// client resolve NAME...: the first IPv4 address of each name, one line a name.
// client txt NAME, client cname NAME: what DNS answers.
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
	"strings"
	"sync"
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
	case len(args) >= 3 && args[0] == "load":
		load(args[1], args[2:])
	case len(args) >= 2 && args[0] == "resolve":
		resolve(args[1:])
	case len(args) == 2 && args[0] == "txt":
		texts, err := net.LookupTXT(args[1])
		show(strings.Join(texts, "\n"), err)
	case len(args) == 2 && args[0] == "cname":
		name, err := net.LookupCNAME(args[1])
		show(name, err)
	default:
		fmt.Fprintln(os.Stderr, "usage: client sleep | serve ADDRESS TEXT | get URL [ADDRESS] | load SECONDS URL... | resolve NAME... | txt NAME | cname NAME")
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
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, nil))
	os.Exit(1)
}

func show(text string, err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(text)
}

func resolve(names []string) {
	failed := false
	for _, name := range names {
		addresses, err := net.DefaultResolver.LookupIP(context.Background(), "ip4", name)
		if err != nil {
			fmt.Println(name, err)
			failed = true
			continue
		}
		fmt.Println(name, addresses[0])
	}
	if failed {
		os.Exit(1)
	}
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
			if len(address) > 0 {
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

func load(seconds string, urls []string) {
	duration, err := time.ParseDuration(seconds + "s")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	end := time.Now().Add(duration)
	var mutex sync.Mutex
	var workers sync.WaitGroup
	result := struct {
		Answered int      `json:"answered"`
		Errors   []string `json:"errors"`
	}{Errors: []string{}}
	for _, url := range urls {
		workers.Add(1)
		go func() {
			defer workers.Done()
			client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
				DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			for time.Now().Before(end) {
				response, err := client.Get(url)
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if err == nil && response.StatusCode != 200 {
						err = fmt.Errorf("%s: %s", url, response.Status)
					}
				}
				mutex.Lock()
				if err == nil {
					result.Answered++
				} else {
					result.Errors = append(result.Errors, time.Now().Format(time.TimeOnly)+" "+err.Error())
				}
				mutex.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		}()
	}
	workers.Wait()
	json.NewEncoder(os.Stdout).Encode(result)
}
