"""Messages of the kubelet's device-plugin and pod-resources interfaces, made by generate.sh."""
