"""From a replica to the processes that an engine starts it with.

launch.py     ReplicaSpec -> EngineLaunch: version, image, environment, secrets, notes; calls one of
vllm.py, sglang.py, trtllm.py    the command line of each node
images.py     container images by engine, release and maker of the GPU
"""
