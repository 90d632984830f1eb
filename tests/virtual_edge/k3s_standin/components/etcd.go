package components

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// runEtcd runs a single etcd member; arguments are its folder and the socket it serves. Only
// root can enter the folder, so the socket needs no certificates.
func runEtcd(arguments []string) int {
	if len(arguments) != 2 {
		fmt.Fprintln(os.Stderr, "usage: etcd FOLDER SOCKET")
		return 2
	}
	folder, socket := arguments[0], arguments[1]
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)

	client := []url.URL{{Scheme: "unix", Path: socket}}
	peer := []url.URL{{Scheme: "unix", Path: socket + ".peer"}}
	config := embed.NewConfig()
	config.Name = "standin"
	config.Dir = folder
	config.ListenClientUrls, config.AdvertiseClientUrls = client, client
	config.ListenPeerUrls, config.AdvertisePeerUrls = peer, peer
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.AutoCompactionMode, config.AutoCompactionRetention = "periodic", "5m"
	level := zap.NewAtomicLevelAt(zap.WarnLevel)
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339TimeEncoder
	logger, err := zap.Config{
		Level: level, Encoding: "console", EncoderConfig: encoding,
		OutputPaths: []string{"stderr"}, DisableStacktrace: true,
	}.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)

	member, err := embed.StartEtcd(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	defer func() {
		level.SetLevel(zap.FatalLevel) // closing its listeners is no error worth a line
		member.Close()
	}()
	select {
	case <-member.Server.ReadyNotify():
	case <-time.After(time.Minute):
		fmt.Fprintln(os.Stderr, "etcd: not ready after a minute")
		return 1
	case <-stop:
		return 0
	}
	select {
	case <-stop:
		return 0
	case err := <-member.Err():
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
}
