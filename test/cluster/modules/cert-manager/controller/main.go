// The controller of cert-manager, from its packages: its own command is a module of its own that cannot be fetched, and what that
// imports for Venafi and Vault is left out. Its defaults, its controllers, the flags that its chart gives.
package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/cert-manager/cert-manager/pkg/apis/certmanager"
	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/metrics"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	"github.com/cert-manager/cert-manager/pkg/healthz"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	dnsutil "github.com/cert-manager/cert-manager/pkg/issuer/acme/dns/util"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
)

func main() {
	logf.InitLogs()
	defer logf.FlushLogs()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(logf.NewContext(ctx, logf.Log, "controller")); err != nil {
		logf.Log.Error(err, "error while executing")
		os.Exit(1)
	}
}

// settings are the flags that its chart gives.
type settings struct {
	clusterResourceNamespace string
	leaderElectionNamespace  string
	solverImage              string
	maxConcurrentChallenges  int
}

func parse() (settings, error) {
	c := settings{}
	logging := logsapi.NewLoggingConfiguration()
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.StringVar(&c.clusterResourceNamespace, "cluster-resource-namespace", "kube-system", "")
	flags.StringVar(&c.leaderElectionNamespace, "leader-election-namespace", "kube-system", "")
	flags.StringVar(&c.solverImage, "acme-http01-solver-image", "", "")
	flags.IntVar(&c.maxConcurrentChallenges, "max-concurrent-challenges", 60, "")
	logf.AddFlags(logging, flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return c, err
	}
	return c, logf.ValidateAndApply(logging)
}

func run(ctx context.Context) error {
	c, err := parse()
	if err != nil {
		return err
	}
	log := logf.FromContext(ctx)
	log.Info("starting controller", "version", util.AppVersion)
	g, ctx := errgroup.WithContext(ctx)
	factory, err := controller.NewContextFactory(ctx, contextOptions(c))
	if err != nil {
		return err
	}
	base, err := factory.Build()
	if err != nil {
		return err
	}
	metrics, err := net.Listen("tcp", ":9402")
	if err != nil {
		return err
	}
	server := base.Metrics.NewServer(metrics)
	g.Go(func() error { return ignoreEnd(ctx, server.Serve(metrics)) })
	g.Go(func() error { <-ctx.Done(); return server.Close() })
	health := healthz.NewServer(20 * time.Second)
	listener, err := net.Listen("tcp", ":9403")
	if err != nil {
		return err
	}
	g.Go(func() error { return health.Start(ctx, listener) })
	elected := make(chan struct{})
	g.Go(func() error { return lead(ctx, c, factory, health, elected) })
	select {
	case <-ctx.Done():
		return g.Wait()
	case <-elected:
	}
	for _, name := range slices.Sorted(maps.Keys(controller.Known())) {
		loop, err := controller.Known()[name](factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		g.Go(func() error { return loop.Run(5, ctx) })
	}
	base.SharedInformerFactory.Start(ctx.Done())
	base.KubeSharedInformerFactory.Start(ctx.Done())
	base.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	return ignoreEnd(ctx, g.Wait())
}

// ignoreEnd returns nil for whatever happened because the process was asked to end.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead closes elected once this replica leads; its end is an error.
func lead(
	ctx context.Context, c settings, factory *controller.ContextFactory, health *healthz.Server,
	elected chan struct{},
) error {
	own, err := factory.Build("leader-election")
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(
		resourcelock.LeasesResourceLock, c.leaderElectionNamespace, "cert-manager-controller",
		own.Client.CoreV1(), own.Client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "-external-cert-manager-controller", EventRecorder: own.Recorder},
	)
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   time.Minute,
		RenewDeadline:   40 * time.Second,
		RetryPeriod:     15 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() {},
		},
		WatchDog: health.LeaderHealthzAdaptor,
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return ignoreEnd(ctx, fmt.Errorf("leader election lost"))
}

// contextOptions are the defaults of internal/apis/config/controller/v1alpha1 (importing that needs Venafi's module, too).
func contextOptions(c settings) controller.ContextOptions {
	return controller.ContextOptions{
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverImage:                 c.solverImage,
			HTTP01SolverResourceRequestCPU:    resource.MustParse("10m"),
			HTTP01SolverResourceRequestMemory: resource.MustParse("64Mi"),
			HTTP01SolverResourceLimitsCPU:     resource.MustParse("100m"),
			HTTP01SolverResourceLimitsMemory:  resource.MustParse("64Mi"),
			ACMEHTTP01SolverRunAsNonRoot:      true,
			DNS01Nameservers:                  dnsutil.RecursiveNameservers,
			DNS01CheckRetryPeriod:             10 * time.Second,
			DNS01CheckAuthoritative:           true,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: c.maxConcurrentChallenges},
		IssuerOptions: controller.IssuerOptions{
			ClusterIssuerAmbientCredentials: true,
			ClusterResourceNamespace:        c.clusterResourceNamespace,
		},
		IngressShimOptions: controller.IngressShimOptions{
			DefaultIssuerKind:                 "Issuer",
			DefaultIssuerGroup:                certmanager.GroupName,
			DefaultAutoCertificateAnnotations: []string{"kubernetes.io/tls-acme"},
			GatewayAPIExtraProtocols:          sets.New[string](),
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	}
}
