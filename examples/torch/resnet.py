"""Residual networks (He et al., 2015) of torch alone, with the parameters' names of torchvision's, whose weights load."""

from torch import nn


def convolution(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class Block(nn.Module):
    """expansion 1: two convolutions of 3 by 3. 4: a bottleneck of 1 by 1, 3 by 3 and 1 by 1."""

    def __init__(self, inputs, planes, stride, expansion):
        super().__init__()
        outputs = planes * expansion
        if expansion == 1:
            shape = [(inputs, planes, 3, stride), (planes, planes, 3, 1)]
        else:
            shape = [(inputs, planes, 1, 1), (planes, planes, 3, stride), (planes, outputs, 1, 1)]
        self.depth = len(shape)
        for number, each in enumerate(shape, 1):
            setattr(self, f"conv{number}", convolution(*each))
            setattr(self, f"bn{number}", nn.BatchNorm2d(each[1]))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        nn.init.zeros_(getattr(self, f"bn{self.depth}").weight)  # a block begins as the identity

    def forward(self, x):
        y = x
        for number in range(1, self.depth + 1):
            y = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(y))
            if number < self.depth:
                y = self.relu(y)
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depths, expansion, classes=1000, width=64):
        super().__init__()
        self.conv1, self.bn1, self.relu = convolution(3, width, 7, 2), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.maxpool, self.avgpool = nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1)
        inputs = width
        for number, depth in enumerate(depths, 1):
            planes = width * 2 ** (number - 1)
            blocks = []
            for i in range(depth):
                blocks.append(Block(inputs, planes, 2 if number > 1 and i == 0 else 1, expansion))
                inputs = planes * expansion
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)
        for each in self.modules():
            if isinstance(each, nn.Conv2d):
                nn.init.kaiming_normal_(each.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for each in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = each(x)
        return self.fc(self.avgpool(x).flatten(1))


SHAPES = {"resnet18": ((2, 2, 2, 2), 1), "resnet34": ((3, 4, 6, 3), 1), "resnet50": ((3, 4, 6, 3), 4),
          "resnet101": ((3, 4, 23, 3), 4)}


def resnet(name, classes=1000, width=64):
    return ResNet(*SHAPES[name], classes, width)
