// The webhook of cert-manager, from its packages (see ../controller).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	cmwebhook "github.com/cert-manager/cert-manager/internal/webhook"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

func main() {
	logf.InitLogs()
	defer logf.FlushLogs()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(logf.NewContext(ctx, logf.Log, "webhook")); err != nil {
		logf.Log.Error(err, "error while executing")
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(flags, c)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if err := logf.ValidateAndApply(&c.Logging); err != nil {
		return err
	}
	server, err := cmwebhook.NewCertManagerWebhookServer(logf.FromContext(ctx), *c)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
