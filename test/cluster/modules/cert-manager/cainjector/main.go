// The CA injector of cert-manager, from its packages (see ../controller).
package main

import (
	"os"

	"github.com/spf13/pflag"
	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cert-manager/cert-manager/internal/apis/config/cainjector"
	"github.com/cert-manager/cert-manager/internal/apis/config/cainjector/scheme"
	"github.com/cert-manager/cert-manager/pkg/api"
	"github.com/cert-manager/cert-manager/pkg/apis/config/cainjector/v1alpha1"
	injector "github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
)

func main() {
	logf.InitLogs()
	defer logf.FlushLogs()
	if err := run(); err != nil {
		logf.Log.Error(err, "error while executing")
		os.Exit(1)
	}
}

func parse() (*cainjector.CAInjectorConfiguration, error) {
	schemes, _, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	versioned := &v1alpha1.CAInjectorConfiguration{}
	schemes.Default(versioned)
	c := &cainjector.CAInjectorConfiguration{}
	if err := schemes.Convert(versioned, c, nil); err != nil {
		return nil, err
	}
	flags := pflag.NewFlagSet("cainjector", pflag.ContinueOnError)
	flags.StringVar(&c.LeaderElectionConfig.Namespace, "leader-election-namespace", c.LeaderElectionConfig.Namespace, "")
	logf.AddFlags(&c.Logging, flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return nil, err
	}
	return c, logf.ValidateAndApply(&c.Logging)
}

func run() error {
	c, err := parse()
	if err != nil {
		return err
	}
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		api.AddToScheme, core.AddToScheme, admission.AddToScheme, extensions.AddToScheme, registration.AddToScheme,
	} {
		if err := add(types); err != nil {
			return err
		}
	}
	ctrl.SetLogger(logf.Log)
	election := c.LeaderElectionConfig
	manager, err := ctrl.NewManager(
		util.RestConfigWithUserAgent(ctrl.GetConfigOrDie(), "cainjector"),
		ctrl.Options{
			Scheme:                        types,
			LeaderElection:                true,
			LeaderElectionNamespace:       election.Namespace,
			LeaderElectionID:              "cert-manager-cainjector-leader-election",
			LeaderElectionReleaseOnCancel: true,
			LeaseDuration:                 &election.LeaseDuration,
			RenewDeadline:                 &election.RenewDeadline,
			RetryPeriod:                   &election.RetryPeriod,
			Metrics:                       server.Options{BindAddress: c.MetricsListenAddress},
			// It watches the metadata of Secrets, and reads those that it needs.
			Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&core.Secret{}}}},
		},
	)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	err = injector.RegisterAllInjectors(ctx, manager, injector.SetupOptions{
		EnableCertificatesDataSource: c.EnableDataSourceConfig.Certificates,
		EnabledReconcilersFor: map[string]bool{
			injector.MutatingWebhookConfigurationName:   c.EnableInjectableConfig.MutatingWebhookConfigurations,
			injector.ValidatingWebhookConfigurationName: c.EnableInjectableConfig.ValidatingWebhookConfigurations,
			injector.APIServiceName:                     c.EnableInjectableConfig.APIServices,
			injector.CustomResourceDefinitionName:       c.EnableInjectableConfig.CustomResourceDefinitions,
		},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
