// Caddy with its HTTP server and the wrapper for PROXY headers. Its argument is a configuration in JSON.
package main

import (
	"log"
	"os"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/proxyprotocol"
)

func main() {
	config, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := caddy.Load(config, false); err != nil {
		log.Fatal(err)
	}
	select {}
}
