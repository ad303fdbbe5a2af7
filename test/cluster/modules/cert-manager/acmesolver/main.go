// What answers HTTP-01 challenges for cert-manager, from its packages (see ../controller).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
)

func main() {
	s := &solver.HTTP01Solver{}
	flags := pflag.NewFlagSet("acmesolver", pflag.ExitOnError)
	flags.IntVar(&s.ListenPort, "listen-port", 8089, "")
	flags.StringVar(&s.Domain, "domain", "", "")
	flags.StringVar(&s.Token, "token", "", "")
	flags.StringVar(&s.Key, "key", "", "")
	_ = flags.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	if err := s.Listen(logf.Log); err != nil && ctx.Err() == nil {
		os.Exit(1)
	}
}
