// The load for `npm run bench -- webhook --bursts PODS`. Go's HTTP client sends admissions, as in the API server.
//
// It prints how many pods got all names, how many did not and why, and how many connections it opened.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	url    = flag.String("url", "", "the webhook")
	ca     = flag.String("ca", "", "a PEM file")
	review = flag.String("review", "", "a file with an AdmissionReview")
	names  = flag.Int("names", 0, "names that each pod gets")
	pods   = flag.Int("pods", 0, "")
	burst  = flag.Int("burst", 1000, "pods of a burst")
	atOnce = flag.Int("at-once", 100, "concurrent admissions")
)

// transport has the settings of client-go's transport/cache.go for webhooks, and the 90 s of its SetTransportDefaults.
func transport(pool *x509.CertPool, opened *atomic.Int64) *http.Transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{"http/1.1"}},
		MaxIdleConnsPerHost: 25,
		IdleConnTimeout:     90 * time.Second,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			opened.Add(1)
			return dialer.DialContext(ctx, network, address)
		},
	}
}

func main() {
	flag.Parse()
	pem, err := os.ReadFile(*ca)
	check(err)
	body, err := os.ReadFile(*review)
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	var opened, named atomic.Int64
	// 10 s is longer than the webhook's timeout in the chart, so that slow answers do not count as failures.
	client := &http.Client{Transport: transport(pool, &opened), Timeout: 10 * time.Second}
	var lock sync.Mutex
	failures := map[string]int{}
	for sent := 0; sent < *pods; {
		size := min(*burst, *pods-sent)
		queue := make(chan struct{}, size)
		for range size {
			queue <- struct{}{}
		}
		close(queue)
		var group sync.WaitGroup
		for range *atOnce {
			group.Go(func() {
				for range queue {
					if err := admit(client, body); err != nil {
						lock.Lock()
						failures[err.Error()]++
						lock.Unlock()
					} else {
						named.Add(1)
					}
				}
			})
		}
		group.Wait()
		sent += size
		fmt.Fprintf(os.Stderr, "# %d of %d pods\n", sent, *pods)
		if sent < *pods {
			time.Sleep(4*time.Second + time.Duration(rand.Int63n(int64(4*time.Second))))
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"named": named.Load(), "connections": opened.Load(), "failures": failures,
	}))
}

// admit sends one pod. The error says why the pod did not get all names.
func admit(client *http.Client, body []byte) error {
	answer, err := client.Post(*url, "application/json", bytes.NewReader(body))
	if err != nil {
		return errors.Unwrap(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var got struct {
		Response struct {
			Allowed bool
			Patch   []byte
		}
	}
	if err := json.Unmarshal(text, &got); err != nil || answer.StatusCode != 200 || !got.Response.Allowed {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	if found := strings.Count(string(got.Response.Patch), `"host-`); found < *names {
		return fmt.Errorf("%d of %d names", found, *names)
	}
	return nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
